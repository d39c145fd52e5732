"""Train text-generation models as if their data had been augmented, without augmented data."""
