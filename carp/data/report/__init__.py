"""Reports on the quality of pairs (the paper, section 2.3): ``carp.data.report.report.write_report`` makes one."""
