"""Build the reference of the library's public names as HTML pages.

python tools/build_reference.py site
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

# what a user imports; the modules of the experiment are read in the source
MODULES = (
    "cfc",
    "cfc.baselines",
    "cfc.errors",
    "cfc.models",
    "cfc.operators",
    "cfc.protocol",
)


def main(folder: Path) -> None:
    from pdoc import doc, render

    import cfc

    warnings.simplefilter("error", UserWarning)  # pdoc's: a name that is not there, and the like
    # pdoc looks for names in the module itself, where those loaded on use are not yet
    for name in cfc.LOADED_ON_USE:
        setattr(cfc, name, getattr(cfc, name))
    modules = {name: doc.Module.from_name(name) for name in MODULES}
    # the text of a value stands where the value is made
    for value in modules["cfc"].variables:
        if home := cfc.LOADED_ON_USE.get(value.name):
            value.docstring = doc.Module.from_name(home).members[value.name].docstring
    render.configure(docformat="google", footer_text=f"cfc {cfc.__version__}")
    pages = {f"{name.replace('.', '/')}.html": m for name, m in modules.items()}
    texts = {page: render.html_module(module, modules) for page, module in pages.items()}
    texts |= {"index.html": render.html_index(modules), "search.js": render.search_index(modules)}
    for page, text in texts.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")
    print(f"{folder / 'index.html'}: {len(modules)} modules")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
