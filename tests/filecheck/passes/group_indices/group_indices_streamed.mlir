// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices},stream-stores"

// What is streamed is the zeros of out, and not those of the counts, which stand before them.
// CHECK: memref.store %none, %ends[%empty_axis] : memref<?xi64>
// CHECK: vector.store %nothing_1, %{{.*}} {alignment = 16 : i64, nontemporal = true}
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
