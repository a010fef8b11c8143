// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=32},vectorize-inner{lanes=8}"

// Whole vectors go up to the one that ends the row.
// CHECK: %last = arith.subi %n_inner, %c8
// CHECK: gather.loop inner(%j) = %c0{{.*}} to %last step %c8
// CHECK: gather.loop inner_rest(%j{{.*}}) = %last to %n_inner step %c8
// CHECK-NOT: memref.store
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
