// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4}"

// Unsigned indices wrap by a division, which stands beside the copy as other computations do.
// CHECK: gather.loop inner(%j) = %{{.*}} step %c4
// CHECK: arith.remui
// CHECK: vector.load
// CHECK: vector.store
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xui64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds wrap : tensor<9x40xf32>, tensor<70xui64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
