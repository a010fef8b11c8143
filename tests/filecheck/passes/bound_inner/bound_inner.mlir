// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=36 most=60}"

// CHECK: func.func @gather(%data: memref<1x1x?x?xi32>
// CHECK-SAME: gather.row_sizes = array<i64: 9, 15>
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
