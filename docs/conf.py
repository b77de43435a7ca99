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
html_static_path = ["site.css"]
html_css_files = ["site.css"]
pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme_options = {  # the colours of the dark theme, which some builds of it use only when it is chosen by hand
    "dark_css_variables": {
        "color-foreground-primary": "#ffffffcc",
        "color-foreground-secondary": "#9ca0a5",
        "color-foreground-muted": "#81868d",
        "color-foreground-border": "#666666",
        "color-background-primary": "#131416",
        "color-background-secondary": "#1a1c1e",
        "color-background-hover": "#1e2124",
        "color-background-border": "#303335",
        "color-brand-primary": "#2b8cee",
        "color-brand-content": "#368ce2",
    }
}
