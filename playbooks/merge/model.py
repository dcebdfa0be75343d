"""Nodes and one LAN for Reprise on a Merge testbed such as SPHERE, as a model for `mrg push`.

Same names, addresses and order as in profile.py, which is CloudLab's. `mrg nodes generate inventory` puts the
nodes into the groups of Reprise. Set the numbers below as your experiment needs them.
"""

import mergexp as merge

CLIENTS = 1
SERVERS = 1  # one for each resolver of an emulated hierarchy
METAS = 0  # of an emulated hierarchy: hierarchy.instances of the experiment

IMAGE = "2404"  # Ubuntu 24.04; must have Python 3.11 or later
METAL = False  # True: physical machines, which measurements need
CORES = 4
MEMORY_GB = 8
SPEED_GBPS = 0  # of the LAN; 0: not limited. A limit is kept by an emulator, which costs time.

PREFIX = "172.16.1"  # not in 10.0.0.0/8, out of which Reprise gives addresses to sources
ROLES = (("controller", 1), ("client", CLIENTS), ("server", SERVERS), ("meta", METAS))


def make_node(net, role, index):
    """A node in its group."""
    name, group = (role, role) if role == "controller" else (f"{role}{index}", f"{role}s")
    wanted = [merge.image == IMAGE, merge.proc.cores >= CORES, merge.memory.capacity >= merge.gb(MEMORY_GB)]
    node = net.node(name, *wanted, *([merge.metal == 1] if METAL else []))
    node.properties["group"] = [group]
    return node


def build():
    """The whole network. Names of nodes mean their addresses in the control network, not in the LAN."""
    net = merge.Network("reprise", merge.experimentnetresolution == False)  # noqa: E712 - makes a constraint
    nodes = [make_node(net, role, index) for role, count in ROLES for index in range(count)]
    lan = net.connect(nodes, *([merge.capacity == merge.gbps(SPEED_GBPS)] if SPEED_GBPS else []))
    for index, node in enumerate(nodes, 1):
        lan[node].socket.addrs = merge.ip4(f"{PREFIX}.{index}/24")
    return net


merge.experiment(build())
