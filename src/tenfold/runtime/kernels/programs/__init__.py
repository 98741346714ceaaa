"""The Triton programs. Importing one imports triton; whether it is interpreted is settled then (TRITON_INTERPRET=1)."""
