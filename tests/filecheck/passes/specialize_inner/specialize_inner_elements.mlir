// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=12}"

// Indices have rows of as many elements, of another width.
// CHECK: %indices: memref<1x?x3xi64>
// CHECK-SAME: %out: memref<1x?x3xi32>
func.func @gather(%data: tensor<9x3xf32>, %indices: tensor<7x3xi64>) -> tensor<7x3xf32> {
  %r = gather.gather_elements %data, %indices axis 0 bounds zero : tensor<9x3xf32>, tensor<7x3xi64> -> tensor<7x3xf32>
  func.return %r : tensor<7x3xf32>
}
