"""The work behind `qtt plans`: record, check, prove, resume and compact stored plans."""
