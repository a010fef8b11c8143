// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=outer sizes=16},vectorize-inner{lanes=8},prefetch{what=rows loop=outer_i ahead=4 lines=2 locality=2}"

// Every row has indices of its own, but the next row follows from the induction variable: it is prefetched whole, into
// the next tile, and no farther than its end.
// CHECK: gather.loop outer_i(%o_i)
// CHECK: gather.loop indices(%i)
// CHECK: %last = arith.subi %n_outer, %{{.*}} : index
// CHECK-NEXT: %ahead = arith.minsi %later, %last : index
// CHECK: %sweep = arith.muli %i, %c4{{.*}} : index
// CHECK: %row_line = arith.minsi %sweep, %row_last : index
// CHECK-NEXT: memref.prefetch %data[%ahead, %row_line, %{{.*}}], read, locality<2>
// CHECK: %row_line_1 = arith.minsi %line, %row_last_1 : index
// CHECK-NEXT: memref.prefetch %data[%ahead, %row_line_1, %{{.*}}], read, locality<2>
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<30x90xf32>, %indices: tensor<30x70xi64>) -> tensor<30x70xf32> {
  %r = gather.gather_elements %data, %indices axis 1 bounds clip : tensor<30x90xf32>, tensor<30x70xi64> -> tensor<30x70xf32>
  func.return %r : tensor<30x70xf32>
}
