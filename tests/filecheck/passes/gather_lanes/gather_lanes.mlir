// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=4},gather-lanes"

// Nothing changes but the mark.
// CHECK: gather.loop indices(
// CHECK: memref.load %indices
// CHECK: arith.addi
// CHECK: arith.minui
// CHECK: arith.minui
// CHECK: memref.load %data
// CHECK: %elements = vector.from_elements %{{.*}} {gathered} : vector<4xi32>
// CHECK: gather.loop indices_rest
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
