"""Nodes and one LAN for Reprise, which replays DNS traffic against a real server.

The nodes are controller, client0, client1, ..., server0, ... and meta0, ...; only the operating system is
installed on them. Reprise prepares them from your own machine.

Instructions:
When all nodes are ready, save the manifest of the experiment as manifest.xml, and on your own machine run
`./reprise inventory cloudlab manifest.xml --user NAME -o hosts.ini`, then
`./reprise run experiments/all-tcp.toml --inventory hosts.ini`. See docs/testbeds.md in the repository.
"""

# CloudLab runs this file with its own geni-lib: nothing here needs more than Python 2.7.

from geni import portal
from geni.rspec import pg

PREFIX = "172.16.1"  # not in 10.0.0.0/8, out of which Reprise gives addresses to sources
NETMASK = "255.255.255.0"
MOST_NODES = 254  # addresses in the LAN
MOST_CLIENTS = 200  # topology.clients of an experiment
UBUNTU_24 = "urn:publicid:IDN+emulab.net+image+emulab-ops//UBUNTU24-64-STD"
SPEEDS = [(gbit * 1000000, "%d Gbit/s" % gbit if gbit else "Any") for gbit in (0, 1, 10, 25, 100)]  # kbit/s


def define(pc):
    """The parameters that the portal asks for."""
    kinds = portal.ParameterType
    servers = "One, or one for each resolver of an emulated hierarchy."
    metas = "For an emulated hierarchy only: hierarchy.instances of the experiment."
    nodes = "Empty: any type that is free. For measurements all nodes should have the same."
    image = "Debian 12, or a derivative with Python 3.11 or later such as Ubuntu 24.04."
    pc.defineParameter("clients", "Number of clients", kinds.INTEGER, 1)
    pc.defineParameter("servers", "Number of servers", kinds.INTEGER, 1, longDescription=servers)
    pc.defineParameter("metas", "Number of meta-DNS-servers", kinds.INTEGER, 0, longDescription=metas)
    pc.defineParameter("nodeType", "Type of the nodes", kinds.NODETYPE, "", longDescription=nodes)
    pc.defineParameter("linkSpeed", "Speed of the LAN", kinds.BANDWIDTH, 0, SPEEDS)
    pc.defineParameter("diskImage", "Disk image", kinds.IMAGE, UBUNTU_24, longDescription=image)


def check(pc, params):
    """Reports every wrong parameter to the portal, which ends this program then."""
    counts = (("clients", 1, MOST_CLIENTS), ("servers", 1, MOST_NODES), ("metas", 0, MOST_NODES))
    for name, least, most in counts:
        if not least <= getattr(params, name) <= most:
            text = "%s must be from %d to %d" % (name, least, most)
            pc.reportError(portal.ParameterError(text, [name]))
    if len(names(params)) > MOST_NODES:
        text = "these are %d nodes; the LAN has addresses for %d" % (len(names(params)), MOST_NODES)
        pc.reportError(portal.ParameterError(text, ["clients", "servers", "metas"]))
    if not params.diskImage:
        pc.reportError(portal.ParameterError("diskImage is empty; choose an image", ["diskImage"]))
    pc.verifyParameters()


def names(params):
    """The nodes in the order of their addresses."""
    found = ["controller"]
    for role, count in (("client", params.clients), ("server", params.servers), ("meta", params.metas)):
        found += ["%s%d" % (role, index) for index in range(count)]
    return found


def build(request, params):
    """All nodes, with an interface in the LAN each."""
    lan = request.LAN("lan")
    if params.linkSpeed:
        lan.bandwidth = int(params.linkSpeed)
    for index, name in enumerate(names(params), 1):
        node = request.RawPC(name)
        node.disk_image = params.diskImage
        if params.nodeType:
            node.hardware_type = params.nodeType
        interface = node.addInterface("if0")
        interface.addAddress(pg.IPv4Address("%s.%d" % (PREFIX, index), NETMASK))
        lan.addInterface(interface)


def main():
    pc = portal.Context()
    define(pc)
    params = pc.bindParameters()
    check(pc, params)
    build(pc.makeRequestRSpec(), params)
    pc.printRequestRSpec()


main()
