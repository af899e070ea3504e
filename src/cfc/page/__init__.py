"""The interactive page of a run: one HTML file with everything in it, read without a network.

`payload` turns result files into plain JSON values, `render` puts them into the page. The page's
own script, style and template lie beside these modules.
"""
