# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The playground as a marimo app: settings on the left, results on the right. Its logic is in modules."""

import marimo

app = marimo.App(width="full", app_title="gathernest play", css_file="play.css")


@app.cell
def imports():
    import marimo as mo

    from gathernest.ir.semantics import Bounds
    from gathernest.kernels.problems.named_problem import OPERATORS
    from gathernest.playground.play import page, work
    from gathernest.playground.play.page import NO_STAGE, Session
    from gathernest.playground.play.settings import FIRST, LinkError, Settings

    return Bounds, FIRST, LinkError, NO_STAGE, OPERATORS, Session, Settings, mo, page, work


@app.cell
def link(FIRST, LinkError, Session, Settings, mo, page, work):
    try:
        start, _said = Settings.from_query(mo.query_params().to_dict()), None
    except LinkError as _error:
        start, _said = FIRST, mo.Html(page.mistake_panel(work.Mistake("The link", str(_error))))
    session = Session.of(start)
    _said  # noqa: B018
    return session, start


@app.cell
def gather(Bounds, OPERATORS, mo, page, start):
    _modes = [mode.value for mode in Bounds]
    operator = mo.ui.dropdown(OPERATORS, start.operator, label="operator")
    data = mo.ui.text(start.data, label="data", debounce=False)
    indices = mo.ui.text(start.indices, label="indices", debounce=False)
    axis = mo.ui.number(value=start.axis, step=1, label="axis")
    batch_dims = mo.ui.number(value=start.batch_dims, step=1, label="batch_dims")
    bounds = mo.ui.dropdown(_modes, start.bounds, label="bounds")
    mo.vstack(
        [
            mo.Html(page.heading("The gather")),
            mo.hstack([operator, bounds], justify="start", wrap=True),
            mo.hstack([data, indices], justify="start", wrap=True),
            mo.hstack([axis, batch_dims], justify="start", wrap=True),
        ]
    )
    return axis, batch_dims, bounds, data, indices, operator


@app.cell
def scale_choice(mo, operator, start):
    scale = mo.ui.number(value=start.scale, label="scale")
    scale if operator.value.endswith("_grad") else None
    return (scale,)


@app.cell
def steps_editor(mo, page, start, work):
    _begun = work.begin(start)
    _text = start.steps
    if _text is None:
        _text = "" if isinstance(_begun, work.Mistake) else "".join(f"{call}\n" for call in _begun.calls)
    steps = mo.ui.code_editor(_text, min_height=120, show_copy_button=False)
    mo.vstack([mo.Html(page.heading("The schedule, one step in each line")), steps])
    return (steps,)


@app.cell
def stage_choice(NO_STAGE, made, mo, page, session, work):
    names = work.stage_names(made)
    chosen = mo.ui.dropdown(
        [NO_STAGE, *names], session.stage_in(names), allow_select_none=False, on_change=session.choose, label="stage"
    )
    reset = mo.ui.button(value=session.resets, on_click=lambda times: times + 1, label="Reset")
    mo.vstack([mo.Html(page.heading("A stage to edit")), mo.hstack([chosen, reset], justify="start")])
    return chosen, names, reset


@app.cell
def stage_editor(NO_STAGE, chosen, made, mo, names, reset, session):
    edited = None if chosen.value == NO_STAGE else names.index(chosen.value)
    _text = "" if edited is None else session.text_of(made[edited].text, reset.value)
    stage_text = mo.ui.code_editor(_text, language="diff", max_height=600, show_copy_button=False)
    None if edited is None else stage_text  # noqa: B018
    return edited, stage_text


@app.cell
def wanted_settings(Settings, axis, batch_dims, bounds, data, indices, mo, operator, scale, session, steps):
    wanted = Settings(
        *(operator.value, data.value.strip(), indices.value.strip()),
        *(int(axis.value or 0), int(batch_dims.value or 0), bounds.value, float(scale.value or 0.0), steps.value),
    )
    session.write_link(mo.query_params(), wanted)
    return (wanted,)


@app.cell
def mistake(work, mo, session, wanted):
    script = work.begin(wanted)
    _wrong = session.mistake(script)
    mo.stop(bool(_wrong), mo.Html(_wrong))
    return (script,)


@app.cell
def nest(mo, page, script, session):
    # The nest is of the steps alone: it is there before the other stages are made.
    mo.Html(session.keep("nest", page.panel("The nest", page.code(script.nest))))
    return


@app.cell
def all_stages(work, mo, script, session):
    plan = script.plan
    made = work.stages(plan)
    _wrong = session.mistake(made)
    mo.stop(bool(_wrong), mo.Html(_wrong))
    return made, plan


@app.cell
def edited_mistake(chosen, edited, work, made, mo, plan, session, stage_text, wanted):
    settings = session.edited(wanted, chosen.value, stage_text.value, None if edited is None else made[edited].text)
    session.write_link(mo.query_params(), settings)
    plan_shown = work.with_edit(plan, settings.stage, settings.text) if settings.text else plan
    stages = work.stages(plan_shown) if settings.text else made
    _wrong = session.mistake(stages)
    mo.stop(bool(_wrong), mo.Html(_wrong))
    return plan_shown, settings, stages


@app.cell
def edited_nest(edited, mo, page, session, settings, stages, work):
    mo.stop(not settings.text)
    mo.Html(session.keep("nest", page.panel("The nest with the edited stage", page.code(work.nest_of(stages, edited)))))
    return


@app.cell
def bytes_check(is_listed, mo, page, plan_shown, session, work):
    is_listed  # noqa: B018  # the stages are shown first: this takes longer
    mo.Html(session.keep("bytes", page.bytes_panel(work.check_bytes(plan_shown))))
    return


@app.cell
def agreement(mo, session, settings):
    agree = mo.ui.run_button(label="Run the edited stage of the link")
    agree if session.waits(settings, agreed=False) else None
    return (agree,)


@app.cell
def machine(agree, mo, page, plan_shown, session, settings):
    def _work():
        _thread = mo.current_thread()
        session.follow(settings, plan_shown, lambda text: mo.output.replace(mo.Html(text)), lambda: _thread.should_exit)

    mo.stop(session.waits(settings, agreed=agree.value), mo.Html(page.panel("The time", page.paragraph(page.WAITING))))
    mo.Thread(target=_work, daemon=True).start()
    mo.Html(session.machine_panels(plan_shown, is_current=False))
    return


@app.cell
def explain_choice(mo, settings):
    settings  # noqa: B018  # other settings: another explanation
    explain = mo.ui.run_button(label="Explain: measure the bounds and the worth of each pass")
    explain  # noqa: B018
    return (explain,)


@app.cell
def explanation(explain, mo, session, settings):
    def _work():
        _thread = mo.current_thread()
        session.explain(settings, lambda text: mo.output.replace(mo.Html(text)), lambda: _thread.should_exit)

    mo.stop(not explain.value)
    mo.Thread(target=_work, daemon=True).start()
    mo.md("Each pass is left out in turn, and timed. The first time, the machine is measured: some ten seconds.")
    return


@app.cell
def stage_list(edited, mo, page, session, settings, stages):
    is_listed = True
    mo.Html(session.keep("stages", page.stages_panel(stages, edited if settings.text else None)))
    return (is_listed,)


if __name__ == "__main__":
    app.run()
