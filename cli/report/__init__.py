"""The report: one page, or one picture a chart, from records or a tuned configuration."""
