// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=64},vectorize-inner{lanes=8},prefetch{what=rows loop=indices_i ahead=16 locality=2},prefetch{what=rows loop=indices_i ahead=2 locality=3}"

// A tile prefetches for the next one, up to the end of all indices. The second prefetch stands before the
// first one, which is no load of data.
// CHECK: gather.loop indices_o(%i_o) = %c0{{.*}} to %n_indices step %c64
// CHECK: gather.loop indices_i(%i_i) = %i_o to %whole step %c8
// CHECK: %later = arith.addi %i_i, %c16 : index
// CHECK: %last = arith.subi %n_indices, %{{.*}} : index
// CHECK-NEXT: %ahead = arith.minsi %later, %last : index
// CHECK: read, locality<3>, data
// CHECK: %later_1 = arith.addi %i_i, %c128 : index
// CHECK: arith.subi %n_indices, %{{.*}} : index
// CHECK: read, locality<2>, data
// CHECK-NOT: locality<3>
func.func @gather(%data: tensor<90xf32>, %indices: tensor<700xi64>) -> tensor<700xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<90xf32>, tensor<700xi64> -> tensor<700xf32>
  func.return %r : tensor<700xf32>
}
