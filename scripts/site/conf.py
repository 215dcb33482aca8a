"""What Sphinx is told. It reads the folder that scripts/site/source.py writes, and has an environment of its own."""

from pathlib import Path

from sphinx.search import languages
from sphinx.search.en import SearchEnglish


class SearchQuestions(SearchEnglish):  # type: ignore[misc]  # Sphinx is not where types are checked
    """English, of which words that only make a question are left out as well: a page needs every word that remains."""

    stopwords = SearchEnglish.stopwords | {
        *("anything", "anywhere", "can", "else", "ever", "every", "everything", "get", "gets", "go", "goes", "happen"),
        *("happens", "just", "lot", "many", "may", "maybe", "mean", "means", "might", "much", "need", "needs", "one"),
        *(
            "per",
            "please",
            "possible",
            "really",
            "something",
            "still",
            "thing",
            "things",
            "want",
            "will",
            "without",
            "yet",
        ),
    }


languages["en"] = SearchQuestions

project = "trainplan"
html_title = "trainplan"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_last_updated_fmt = None
suppress_warnings = ["misc.highlighting_failure"]
"""Schemas and printed screens stand in fences of other languages."""
