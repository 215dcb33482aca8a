"""What each role reaches that is not of this product."""
