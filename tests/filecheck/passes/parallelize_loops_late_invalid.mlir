// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i},parallelize-loops{loops=indices_o}" --verify-diagnostics

// Legal, but its buffer is subscripted by the place in the tile: the pass proves it before hoist-indices alone.
// expected-error@unknown {{cannot prove that iterations of indices_o are independent: no dimension is subscripted in every store by its induction variable, or that of its tile; where an earlier pass is the reason, such as hoist-indices or vectorize-inner, run parallelize-loops before it}}
func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<50xi64>) -> tensor<50x4xf32> {
  %result = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<50xi64> -> tensor<50x4xf32>
  func.return %result : tensor<50x4xf32>
}
