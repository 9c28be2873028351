"""Who makes, changes, sees and runs templates."""

import pytest

from accounts.models import Membership, TeamRole
from common.errors import Conflict, InvalidInput, NameTaken, NotFound, NotPermitted
from events.models import Event
from job_templates import services
from job_templates.models import JobTemplate, JobTemplateVersion
from job_templates.services import TemplateQuery, find_template, find_version, list_templates, render_job
from tests import make

pytestmark = pytest.mark.django_db
TEXT = "template:\n  name: finetune\n  parameters: {lr: {type: number, default: 1e-3}}\nrun: train ${{ lr }}\n"


@pytest.fixture
def cast(db):
    return make.cast()


def create(cast, **fields) -> JobTemplate:
    return services.create_template(**{"actor": cast.ada, "team": cast.nlp, "text": TEXT, **fields})


def names(person, **asked) -> set[str]:
    return {one.name for one in list_templates(person, TemplateQuery(**{"examples": False, **asked}))}


def test_a_team_sees_its_templates_and_everybody_those_of_all(cast):
    create(cast)
    create(cast, actor=make.admin(), team=None, text=TEXT.replace("finetune", "for-all"))
    assert names(cast.ada) == names(cast.bob) == {"finetune", "for-all"}
    assert names(cast.eve) == {"for-all"} and names(cast.ada, text="TUNE") == {"finetune"}
    with pytest.raises(NotFound):
        find_template(cast.eve, JobTemplate.objects.get(name="finetune").public_id)


def test_examples_are_listed_with_them_and_never_change(cast):
    found = list_templates(cast.eve)
    assert found[0].name == "first-steps" and all(one.is_example for one in found)
    assert list_templates(cast.eve, TemplateQuery(archived=True)) == []
    with pytest.raises(Conflict):
        services.require_change(make.admin(), found[0])
    with pytest.raises(InvalidInput):
        create(cast, text=TEXT.replace("finetune", "first-steps"))


@pytest.mark.parametrize("who", ["eve", "viewer", "member for all"])
def test_who_may_not_create_one(cast, who):
    if who == "viewer":
        Membership.objects.filter(user=cast.ada).update(role=TeamRole.VIEWER)
    person, team = (cast.eve, cast.nlp) if who == "eve" else (cast.ada, None if who.endswith("all") else cast.nlp)
    with pytest.raises(NotPermitted):
        create(cast, actor=person, team=team)
    assert not JobTemplate.objects.exists()


def test_versions_are_kept_as_they_were(cast):
    row = create(cast)
    second = services.add_version(actor=cast.ada, template=row, text=TEXT.replace("1e-3", "2e-3"))
    assert second.number == 2
    again = services.add_version(actor=cast.ada, template=row, text=TEXT.replace("1e-3", "2e-3"))
    assert again.number == 2  # the same text makes no version
    template = find_template(cast.bob, row.public_id)
    assert template.version == 2
    assert [find_version(template, n).file.parameters["lr"].default for n in (1, 2, None)] == [
        "0.001",
        "0.002",
        "0.002",
    ]
    assert [one.number for one in services.list_versions(template)] == [2, 1]
    with pytest.raises(NotFound):
        find_version(template, 3)
    events = Event.objects.filter(kind="template", object_id=row.pk).order_by("pk")
    assert [event.verb for event in events] == ["created", "changed"]


def test_a_colleague_changes_it_as_a_lead_alone(cast):
    row, carl = create(cast), make.user("carl", cast.nlp)
    with pytest.raises(NotPermitted):
        services.add_version(actor=carl, template=row, text=TEXT.replace("1e-3", "2e-3"))
    with pytest.raises(NotPermitted):
        services.archive_template(actor=carl, template=row)
    services.archive_template(actor=cast.bob, template=row)
    Membership.objects.filter(user=cast.ada).update(role=TeamRole.VIEWER)
    with pytest.raises(NotPermitted):
        services.restore_template(actor=cast.ada, template=row)


def test_a_name_is_of_one_template_of_a_team(cast):
    row = create(cast)
    with pytest.raises(InvalidInput):
        create(cast)
    with pytest.raises(InvalidInput):
        services.add_version(actor=cast.ada, template=row, text=TEXT.replace("finetune", "other"))
    assert JobTemplateVersion.objects.count() == 1


def test_an_archived_one_is_out_of_the_list_and_runs_no_job_until_it_is_restored(cast):
    row = create(cast)
    services.archive_template(actor=cast.ada, template=row)
    assert names(cast.ada) == set() and names(cast.ada, archived=True) == {"finetune"}
    with pytest.raises(Conflict):
        render_job(find_version(find_template(cast.ada, row.public_id)), {})
    with pytest.raises(Conflict):
        services.add_version(actor=cast.ada, template=row, text=TEXT.replace("1e-3", "2e-3"))
    newer = create(cast)
    with pytest.raises(NameTaken):
        services.restore_template(actor=cast.ada, template=row)
    services.archive_template(actor=cast.ada, template=newer)
    services.restore_template(actor=cast.ada, template=row)
    assert names(cast.ada) == {"finetune"}


def test_a_stored_version_outlives_stricter_rules(cast):
    row = create(cast)
    JobTemplateVersion.objects.update(file=TEXT + "no_such_key: 1\n")
    version = find_version(find_template(cast.ada, row.public_id))
    with pytest.raises(InvalidInput) as refused:
        render_job(version, {})
    assert refused.value.errors[0].pointer == "/no_such_key"
