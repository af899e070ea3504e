"""Entry of rule certify_requests: certificates of the requests against their base models."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.data import DatasetSpec
    from cfc.protocol import Protocol
    from cfc.recourse.certificates import certify_stage
    from cfc.recourse.data import RecourseData
    from cfc.recourse.nets import load_nets
    from cfc.recourse.stages import bases_of

    params = params_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    table, facts = certify_stage(
        RecourseData.read(job.input.data),
        bases_of(load_nets(job.input.nets), read_table(job.input.facts)),
        read_table(job.input.requests),
        DatasetSpec.from_mapping(unit_of(job)["dataset"], params["entry"]),
        protocol,
        params["config"],
    )
    own = {"protocol": protocol.to_dict(), "protocol_hash": protocol.hash, **facts}
    write_table(table, job.output.certificates, {**provenance(job), **own})


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
