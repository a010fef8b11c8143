// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=160}"

// CHECK: func.func @gather(%data: memref<1x1x?x40xi32>
// CHECK: %indices: memref<1x?xi64>
// CHECK: %out: memref<1x1x?x40xi32>
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
