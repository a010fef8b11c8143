// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=32},vectorize-inner{lanes=8},stream-stores,check-indices{how=fused loop=indices_o},stage-result" --verify-diagnostics

// expected-error@unknown {{memref.collapse_shape takes out by its address; leave this pass out, or vectorize-inner and stream-stores}}
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
