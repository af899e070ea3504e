"""Entry of rule audit_apas: a sample of APΔS' candidates against an exact solver."""

from _job import logged, params_of, provenance


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.exact import audit_stage
    from cfc.recourse.nets import load_nets
    from cfc.recourse.stages import bases_of

    table = audit_stage(
        RecourseData.read(job.input.data),
        bases_of(load_nets(job.input.nets), read_table(job.input.facts)),
        read_table(job.input.requests),
        read_table(job.input.candidates),
        params_of(job)["config"],
    )
    write_table(table, job.output.audit, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
