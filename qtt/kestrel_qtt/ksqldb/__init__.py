"""What only ksqlDB's own corpus needs: its file formats, test functions and internal topics."""
