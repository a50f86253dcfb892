"""The host around the card: queues, threads and PCIe transfers of each instance."""
