# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the documentation site; `make docs` builds it (docs/site/build.py prepares the pages)."""

project = "sow"
author = "the sow developers"
copyright = "the sow developers, Apache-2.0"  # noqa: A001

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages that begin with a table of their own
exclude_patterns = ["site/**"]

html_theme = "furo"
html_title = "sow"
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # the race's pages, which stand by themselves
html_css_files = ["sow.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False, "top_of_page_buttons": [], "light_css_variables": {}, "dark_css_variables": {}}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

default_role = "literal"
smartquotes = False
nitpicky = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
highlight_language = "text"
