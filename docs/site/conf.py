"""Sphinx for the pages that docs/site/build.py gathers. Nothing that a page loads comes from another host."""

import clnet

project = "clnet"
version = release = clnet.__version__
copyright = "the authors of clnet, Apache-2.0"
extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_enable_extensions = ["attrs_inline", "attrs_block"]
nitpicky = True
suppress_warnings = ["myst.header"]  # reports, which commands write, begin under their title with ###
html_theme = "furo"
html_title = "clnet"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
