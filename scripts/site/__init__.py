"""`make site`: the documentation as a site with search, in .build/site, built without the network.

`source.py` puts the pages of docs/ into one folder in the order of docs/README.md, beside pages that `reference.py`
writes from the command tree and the schema of job files. Sphinx builds it (`conf.py`), and `check.py` refuses a link
that leads nowhere and writes llms.txt. Sphinx has an environment of its own (requirements/site.txt); everything else
here runs in the project's (ADR 55).
"""
