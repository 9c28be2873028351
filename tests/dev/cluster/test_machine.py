from dev.cluster.machine import build_removal, find_chains

RULES = """
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-1 - [0:0]
:CNI-0a1b - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.88.0.2/32 -m comment --comment "name: \\"tessera\\" id: \\"f\\"" -j CNI-0a1b
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-1
-A DOCKER -i docker0 -j RETURN
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
COMMIT
""".splitlines()


def test_only_chains_of_kubernetes_and_cni_are_found():
    nat = {("nat", "KUBE-SERVICES"), ("nat", "KUBE-SVC-1"), ("nat", "CNI-0a1b")}
    assert find_chains(RULES) == nat | {("filter", "KUBE-FIREWALL")}


def test_a_chain_goes_after_every_rule_that_leads_into_it():
    assert build_removal(RULES, {("filter", "KUBE-FIREWALL")}) == [
        "*filter", "-D INPUT -j KUBE-FIREWALL", "-F KUBE-FIREWALL", "-X KUBE-FIREWALL", "COMMIT",
    ]  # fmt: skip


def test_chains_that_lead_into_each_other_are_emptied_before_any_is_deleted():
    script = build_removal(RULES, {("nat", "KUBE-SERVICES"), ("nat", "KUBE-SVC-1")})
    assert [line[:2] for line in script] == ["*n", "-D", "-F", "-F", "-X", "-X", "CO"]


def test_what_others_have_stays():
    script = "\n".join(build_removal(RULES, find_chains(RULES)))
    assert "DOCKER" not in script
    assert 'id: \\"f\\"" -j CNI-0a1b' in script


def test_nothing_to_remove_is_nothing_to_run():
    assert build_removal(RULES, set()) == []
