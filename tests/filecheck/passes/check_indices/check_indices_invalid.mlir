// RUN: gathernest-opt %s -p "nest,drop-unit-loops,specialize-inner{bytes=160},group-indices{loop=indices},check-indices{how=fused loop=axis}" --verify-diagnostics

// expected-error@unknown {{count_indices sorts all indices by position before axis; leave group-indices out, or this pass}}
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
