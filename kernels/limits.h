// The largest shapes that backends take: what they keep on the stack is sized by these, and what
// reads a model's configuration refuses anything above. Standard library only.
#pragma once

namespace engramd::kernels {

inline constexpr int kHeadsMax = 256;         // DeepSeek-V3 has 128
inline constexpr int kLatentWidthMax = 1024;  // kv_lora_rank + qk_rope_head_dim; V3: 512 + 64
inline constexpr int kStreamsMax = 16;        // residual streams; DeepSeek-V4 has 4
inline constexpr int kExpertsMax = 4096;      // routed experts of one layer
inline constexpr int kTapsMax = 16;           // of the Engram convolution; the public demo has 4

}  // namespace engramd::kernels
