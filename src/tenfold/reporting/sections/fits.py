"""What compressing lost, site by site, as a table of colours: layers down, roles across."""

from collections.abc import Mapping

from tenfold.planning.plan import Plan
from tenfold.reporting.collect import Run
from tenfold.reporting.html import Child, Html, absent, join, table, tag
from tenfold.reporting.sections.analysed import site_errors

OF = ("weights", "outputs")


def fits(run: Run) -> Html | None:
    """None for a model without a plan."""
    if run.plan is None:
        return None
    now = site_errors(run.analysis) if run.analysis else {}
    if not run.compression.fits and not now:
        return absent("No record of how close compression came: history.json has no compress entry")
    intro = "Share of the squared norm that was lost by compressing: 0% is exact, 100% as bad as a matrix of zeros."
    parts: list[Child] = [tag("p", intro), _groups(run) if run.compression.fits else None]
    lost = {path: both for fit in run.compression.fits for path, both in fit.sites.items()}
    maps = []
    for k, what in enumerate(OF):
        values = {path: both[k] for path, both in lost.items() if both[k] is not None}
        if values:
            maps.append(heatmap(run.plan, values, f"Lost of each matrix's {what}, in %"))
    if now and run.taught:
        maps.append(heatmap(run.plan, now, "How far each matrix is from the original's after teaching, in %"))
    return join([*parts, tag("div", *maps, class_="side")], "\n")


def heatmap(plan: Plan, values: Mapping[str, float | None], caption: str) -> Html:
    """The deepest colour is 100%, or the largest value where that is more, so that two pages compare."""
    sites = [site for site in plan.factored if site.path in values and site.layer >= 0]
    roles, layers = list(dict.fromkeys(site.role for site in sites)), sorted({site.layer for site in sites})
    place = {(site.layer, site.role): values[site.path] for site in sites}
    most = max([1.0, *(value for value in place.values() if value is not None)])
    head = tag("tr", tag("th", "layer", scope="col"), *(tag("th", role, scope="col") for role in roles))
    body = [
        tag("tr", tag("th", layer, scope="row"), *(_cell(place.get((layer, role)), most) for role in roles)) for layer in layers
    ]
    scale = tag("p", "0%", tag("i", class_="ramp"), f"{100 * most:.0f}%", class_="scale")
    inner = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", join(body, "\n")), class_="heat"
    )
    return tag("div", tag("div", inner, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {caption}"), scale)


def _cell(value: float | None, most: float) -> Html:
    if value is None:
        return tag("td")
    return tag("td", f"{100 * value:.0f}", style=f"--heat:{100 * value / most:.1f}%")


def _groups(run: Run) -> Html:
    rows = [
        (
            fit.group,
            fit.init,
            _percent(fit.weight_error),
            _percent(fit.output_error),
            str(len(fit.sites)) if fit.sites else None,
        )
        for fit in run.compression.fits
    ]
    heads = ("group", "start", "lost of the weights", "lost of the outputs", "matrices")
    return table(heads, rows, caption="By group of matrices that share factors", numbers=(2, 3, 4))


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f}%"
