"""Entry of rule write_verdict: the page that says what a run shows, from its tables."""

from _job import logged, params_of


def main(job):
    from cfc.artifacts import write_text
    from cfc.evaluate import EvaluationSettings
    from cfc.tables.render import document_html, document_markdown, table_reader
    from cfc.verdict import TITLE, sections

    config = params_of(job)["config"]
    expected = [
        (dataset, model, seed)
        for dataset in config["datasets"]
        for model in config["models"]
        for seed in config["seeds"]
    ]
    found = sections(
        table_reader(job.input.tables), expected, EvaluationSettings(**config["evaluation"])
    )
    facts = [("run", config["run"]), ("protocol preset", config["preset"])]
    write_text(document_markdown(TITLE, facts, found), job.output.markdown)
    write_text(document_html(TITLE, facts, found), job.output.html)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
