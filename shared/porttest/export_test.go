package porttest

const Lowest, Ports = lowest, ports

var Reserve = reserve
