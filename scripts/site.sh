#!/usr/bin/env bash
# site.sh BIN: builds the documentation as a site with search, from docs/ into .build/site, with the project's own
# commands in BIN and Sphinx from .build/site-env. Fails where a page is in no list, or a link leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
source=.build/site-source
site=.build/site

"$bin/python" -m scripts.site source "$source"
rm -rf "$site"
.build/site-env/bin/sphinx-build -q -W --keep-going --jobs auto -d .build/site-doctrees -c scripts/site "$source" "$site"
"$bin/python" -m scripts.site check "$source" "$site"
echo "the site is in $site: open $site/index.html"
