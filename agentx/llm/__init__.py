"""Language models: values, token counts, facts per model, and the one seam to a provider. Knows no Django."""
