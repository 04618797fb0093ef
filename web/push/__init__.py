"""Documents that programs push to `/api/v1/documents`."""
