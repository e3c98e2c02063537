"""Compare robust losses by published protocols (data, network and training), and by smaller protocols of ours."""
