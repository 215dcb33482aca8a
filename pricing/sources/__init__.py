"""Where prices are read anew: a module for each vendor's lists, fetching and parsing apart."""
