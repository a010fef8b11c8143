// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,drop-unit-loops,tile-loops{loops=inner sizes=2},interchange-loops{order=inner_o,indices,inner_i}"

// CHECK: gather.loop inner_o(%{{.*}})
// CHECK: gather.loop ordered indices(%i)
// CHECK: gather.loop inner_i(%{{.*}})
func.func @gather(%grad: tensor<6x4xf32>, %indices: tensor<6xi64>) -> tensor<5x4xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<6x4xf32>, tensor<6xi64> -> tensor<5x4xf32>
  func.return %r : tensor<5x4xf32>
}
