// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=indices ahead=16 lines=2 locality=1}"

// CHECK: gather.loop indices(%i)
// CHECK-NEXT: %c16 = arith.constant 16 : index
// CHECK-NEXT: %later = arith.addi %i, %c16 : index
// CHECK: %last = arith.subi %n_indices, %{{.*}} : index
// CHECK-NEXT: %ahead = arith.minsi %later, %last : index
// CHECK: memref.load %indices[%{{.*}}, %ahead]
// CHECK: memref.prefetch %data[%{{.*}}, %position, %c0{{.*}}], read, locality<1>, data
// CHECK: %n_row = memref.dim %data
// CHECK: %line = arith.addi %c0{{.*}}, %c16_1 : index
// CHECK: %row_last = arith.subi %n_row, %{{.*}} : index
// CHECK: %row_line = arith.minsi %line, %row_last : index
// CHECK: memref.prefetch %data[%{{.*}}, %position, %row_line], read, locality<1>, data
// CHECK-NOT: memref.prefetch
// CHECK: memref.load %indices[%{{.*}}, %i]
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
