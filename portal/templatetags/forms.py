"""Tags for form fields. {% load forms %}{% field form.name %}."""

from django import forms, template
from django.forms.boundfield import BoundField
from django.utils.safestring import SafeString

register = template.Library()

CLASSES: dict[type, str] = {
    forms.Select: "form-select",
    forms.CheckboxInput: "form-check-input",
    forms.RadioSelect: "",
    forms.CheckboxSelectMultiple: "",
}


@register.inclusion_tag("_field.html")
def field(bound: BoundField, note: str = "", mono: bool = False) -> dict:
    """Render label, control, help and error. note: beside the label; mono: for code and numbers."""
    return {
        "field": bound,
        "note": note,
        "control": control(bound, mono),
        "is_check": isinstance(bound.field.widget, forms.CheckboxInput),
    }


@register.simple_tag
def control(bound: BoundField, mono: bool = False) -> SafeString:
    """Render the bare control; Django adds aria-describedby."""
    widget = type(bound.field.widget)
    names = [CLASSES.get(widget, "form-control"), "mono" if mono else "", bound.field.widget.attrs.get("class", "")]
    return bound.as_widget(attrs={"class": " ".join(filter(None, names))})
