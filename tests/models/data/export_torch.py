"""Write torch_lookup.onnx: `python export_torch.py`, in an environment with torch 2.13.0 and onnx 1.23.2."""

import torch


class Lookup(torch.nn.Module):
    """An embedding, and four ways in which models pick from what it gives."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(20, 8)
        self.register_buffer("columns", torch.tensor([7, 5, 3, 1]))

    def forward(self, tokens, picks):
        rows = self.embedding(tokens)
        return rows[:, 0], torch.gather(rows, 1, picks), rows[..., self.columns], rows.view(rows.size(0), -1)


torch.onnx.export(
    Lookup().eval(),
    (torch.randint(0, 20, (2, 5)), torch.randint(0, 5, (2, 3, 8))),
    "torch_lookup.onnx",
    input_names=["tokens", "picks"],
    output_names=["first", "along", "columns_of", "flat"],
    dynamic_axes={"tokens": {0: "batch", 1: "length"}, "picks": {0: "batch", 1: "chosen"}},
    opset_version=17,
    dynamo=False,
)
