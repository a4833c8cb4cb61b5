"""Networks: architectures as plain values, their weights as one flat vector. Needs the extra `torch`."""
