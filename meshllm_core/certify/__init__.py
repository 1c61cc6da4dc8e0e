"""Which codec an artifact stands: measuring, verdicts, signed records, and the gate. Pure computing."""
