# The documentation as a site, by Sphinx: `make site` writes it to bin/site. A dead link or heading is an error.
project = "limitctl"
copyright = "the authors of limitctl"
extensions = ["myst_parser"]
root_doc = "docs/index"
exclude_patterns = ["bin", "**/node_modules", "docs/*/node", "**/testdata", ".github"]
myst_heading_anchors = 4
html_theme = "furo"  # follows the reader's choice of light or dark, and searches without a server
html_title = "limitctl"
html_copy_source = False
pygments_style = "sphinx"  # in which the output of commands is not slanted
pygments_dark_style = "monokai"
