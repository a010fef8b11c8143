// RUN: gathernest-opt %s -p "nest,drop-unit-loops,unroll{loop=inner factor=4}"

// CHECK: gather.loop inner(%j) = %{{.*}} to %n_inner step %c4
// CHECK-NOT: gather.loop inner_rest
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
