"""Interactive pages: one HTML file with everything in it, read without a network.

Of a run, `payload` turns result files into plain JSON values and `render` puts them into the page.
Of an audit, `audit` does both. Scripts, styles and templates lie beside these modules: ``base`` and
``common`` are in every page, ``card.css`` styles the card of a case in a notebook too.
"""
