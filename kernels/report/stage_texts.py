"""The stages of a kernel by name, as a dict that notebooks show with its unchanged stages folded. Plain Python."""

from ...lowering import static_html as html


class StageTexts(dict[str, str]):
    """The text of each stage by the name of its pass, in the order in which they ran."""

    def _repr_html_(self) -> str:
        parts, before = list[str](), None
        for name, text in self.items():
            if text == before:
                parts.append(html.paragraph(f"{name}: nothing changed"))
            else:
                parts.append(html.fold(f"{name}: {text.count(chr(10))} lines", html.code(text), is_open=before is None))
            before = text
        return html.fragment("Stages", *parts)
