"""Golden gradients by the Engram rows, from the recipe's own network. Usage: make_row_gradients.py MODEL_DIR ACTIVATIONS OUT
Needs numpy and torch (1.13 of Debian's python3-torch does). Texts: the golden cases with their greedy continuations, which are
what should follow; the loss of a text is the mean over the continuation."""
import json, struct, sys
import numpy as np, torch, torch.nn.functional as F
folder, activations, out = sys.argv[1:4]
sys.path.insert(0, f"{folder}/recipe")
from model import EngramMoe
if not hasattr(F, "scaled_dot_product_attention"):  # torch before 2.0
    F.scaled_dot_product_attention = lambda q, k, v, attn_mask: torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + attn_mask, -1) @ v

def tensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0])); data = f.read()
    def value(t):
        a, b = t["data_offsets"]; raw = data[a:b]; d = t["dtype"]
        if d == "BF16": v = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif d == "F8_E4M3":
            c = np.frombuffer(raw, np.uint8).astype(np.int64); e, m = (c >> 3) & 15, c & 7
            v = np.where(c & 128, -1.0, 1.0) * np.where(e == 0, m / 8 * 2.0 ** -6, (1 + m / 8) * 2.0 ** (e - 7.0))
        elif d == "F8_E8M0": v = 2.0 ** (np.frombuffer(raw, np.uint8).astype(np.float64) - 127)
        else: v = np.frombuffer(raw, dict(F32=np.float32, I64=np.int64, I32=np.int32, U16=np.uint16, U8=np.uint8, BOOL=np.bool_)[d])
        return v.reshape(t["shape"])
    return {k: value(t) for k, t in header.items() if k != "__metadata__"}

def load():
    c = json.load(open(f"{folder}/config.json")); t = tensors(f"{folder}/model.safetensors")
    f = lambda k: torch.tensor(np.array(t[k], np.float32))
    net = EngramMoe(c, dict(size=c["engram_compressed_vocab_size"], map=t["model.engram.token_map"].tolist())); sd = {}
    names = dict(key_proj="key_proj.weight", key_bias="key_proj.bias", key_norm="key_norm.weight", query_norm="query_norm.weight", conv_norm="conv_norm.weight", conv="conv.weight")
    for k in net.state_dict():
        if ".engram." in k:
            p, n = k.split(".engram."); q = f"model.{p}.engram."
            sd[k] = f(q + "embed.weight") * f(q + "embed.scale") if n == "embed.weight" else f(q + names.get(n, n))
        elif k.endswith("mlp.gate"): sd[k] = f("model." + k + ".weight")
        elif k.endswith("mlp.gate_up") or k.endswith("mlp.down"):
            p = "model." + k.rsplit(".", 1)[0] + ".experts."; E = range(c["n_routed_experts"])
            sd[k] = torch.stack([f(p + f"{e}.down_proj.weight") if k.endswith("down") else torch.cat([f(p + f"{e}.gate_proj.weight"), f(p + f"{e}.up_proj.weight")]) for e in E])
        elif k.endswith("e_score_correction_bias"): sd[k] = f("model." + k.replace("mlp.e_score", "mlp.gate.e_score"))
        else: sd[k] = f("model." + k)
    net.load_state_dict(sd); return net, c

# Arithmetic in float64: where the loss is small, float32 loses the gradient's digits in "probability - 1".
net, c = load(); torch.set_default_dtype(torch.float64); torch.Tensor.float = torch.Tensor.double; net.double(); golden = tensors(activations); result = {}
for p in net.parameters(): p.requires_grad_(False)
class Seen(torch.nn.Module):
    """The embedding, whose output keeps its gradient."""
    def __init__(s, base): super().__init__(); s.base = base
    def forward(s, rows): s.out = s.base(rows).requires_grad_(True); return s.out
layers = c["engram_layer_ids"]
for l in layers: net.layers[l].engram.embed = Seen(net.layers[l].engram.embed)
for case in sorted(k[:-len(".input_ids")] for k in golden if k.endswith(".input_ids")):
    ids, greedy = golden[f"{case}.input_ids"].tolist(), golden[f"{case}.greedy"].tolist()
    if len(ids) > 64: ids = ids[:64]  # a long one shows no more, and is large
    seen = net(torch.tensor([golden[f"{case}.input_ids"].tolist()]))[0, -1].detach().numpy(); expected = golden[f"{case}.logits"][-1]
    assert np.square(seen - expected).sum() < 1e-9 * np.square(expected).sum(), case
    logits = net(torch.tensor([ids + greedy[:-1]]))[0, len(ids) - 1:]
    loss = F.cross_entropy(logits, torch.tensor(greedy)); net.zero_grad(); loss.backward()
    result[f"{case}.text"], result[f"{case}.answer"] = np.array(ids, np.int32), np.array(greedy, np.int32)
    result[f"{case}.loss"] = np.array([loss.item()], np.float32)
    for l in layers: result[f"{case}.grad_rows.{l}"] = net.layers[l].engram.embed.out.grad[0].flatten(1).numpy().astype(np.float32)
    print(case, len(ids), len(greedy), loss.item(), [float(np.linalg.norm(result[f"{case}.grad_rows.{l}"])) for l in layers])
header, at = {}, 0
for k, v in result.items(): header[k] = dict(dtype={"float32": "F32", "int32": "I32"}[str(v.dtype)], shape=list(v.shape), data_offsets=[at, at + v.nbytes]); at += v.nbytes
text = json.dumps(header).encode(); text += b" " * (-len(text) % 8)
with open(out, "wb") as f: f.write(struct.pack("<Q", len(text)) + text); [f.write(np.ascontiguousarray(v).tobytes()) for v in result.values()]
