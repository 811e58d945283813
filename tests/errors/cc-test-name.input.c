static struct tcp_congestion_ops mine __read_mostly = {
	.name = "my own control",
};
