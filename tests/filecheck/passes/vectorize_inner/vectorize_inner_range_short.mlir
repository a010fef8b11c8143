// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=16},vectorize-inner{lanes=8}"

// Rows may be shorter than a vector: single elements remain.
// CHECK: gather.loop inner(%j) = %c0{{.*}} to %whole step %c8
// CHECK: gather.loop inner_rest(%j{{.*}}) = %whole to %n_inner step %c1
// CHECK: memref.store
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
