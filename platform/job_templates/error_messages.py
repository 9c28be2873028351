"""Sentences for the errors of templates."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_parameter_name": _(
        "“%(got)s” is not a valid name of a parameter. Use up to 40 lower-case letters, digits and underscores, and "
        "begin with a letter."
    ),
    "bad_placeholder": _("A placeholder is not complete here. Write it like ${{ lr }}, with the name of a parameter."),
    "bad_template_name": _(
        "“%(got)s” is not a valid name of a template. Use up to 63 lower-case letters, digits and dashes."
    ),
    "choices_and_type": _(
        "A parameter of type choice needs its choices as a list, and no other type has any. Add the list, or leave it "
        "out."
    ),
    "limits_and_type": _("Only a parameter of type integer or number has least and most. Leave them out."),
    "no_template_head": _(
        "This file has no head of a template. Begin it with “template:”, and below it “name: finetune”."
    ),
    "not_number": _("“%(got)s” is not a number. Write it like 10, 0.5 or 3e-4."),
    "not_true_or_false": _("“%(got)s” is neither true nor false. Write one of the two."),
    "not_whole_number": _("“%(got)s” is not a whole number. Write it like 10."),
    "placeholder_in_key": _(
        "The parameter “%(name)s” stands in a key. Only values can have parameters: write the key out."
    ),
    "template_keeps_name": _("A template keeps its name. Write “name: %(name)s”, or create another template."),
    "template_name_taken": _("There is another template “%(name)s” already. Choose another name."),
    "token_in_template": _(
        "A template gives no token, since its commands would act for whoever runs it. Leave token out here; who "
        "needs it adds it to the job."
    ),
    "undeclared_parameter": _(
        "The template has no parameter “%(name)s”. Add it below “parameters”, or write the value out."
    ),
    "undeclared_parameter.near": _("The template has no parameter “%(name)s”. Did you mean “%(did_you_mean)s”?"),
    "unknown_parameter": _("The template has no parameter “%(name)s”. It has: %(known)s."),
    "unknown_parameter.near": _("The template has no parameter “%(name)s”. Did you mean “%(did_you_mean)s”?"),
    "unknown_parameter.none": _("The template has no parameter “%(name)s”, and no other. Leave it out."),
    "unused_parameter": _(
        "The parameter “%(name)s” stands nowhere in the job file. Write ${{ %(name)s }} where its value belongs, or "
        "remove it."
    ),
}
ERROR_MESSAGES = {
    "example_is_fixed": _(
        "“%(name)s” is an example that comes with the platform, and is changed with it alone. Create a template of it."
    ),
    "template_archived": _("The template “%(name)s” is archived. Restore it first, or choose another."),
    "template_name_taken": _("There is another template “%(name)s” already. Archive that one first."),
    "user_limit.templates": _("There are %(used)s of at most %(limit)s templates. Archive one first."),
}
